# A database in a file: transactions, indexes, full text, several writers at once, write-ahead log, export, repair.
set -euo pipefail
cd /tmp
sqlite3 data.db << 'SQL'
pragma journal_mode = wal;
create table item (id integer primary key, name text not null, price real, made text default current_timestamp);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
insert into item (name, price) select 'item ' || i, i * 0.5 from n;
create index by_name on item (name);
create virtual table words using fts5(text);
insert into words select name from item where id % 100 = 0;
SQL
ask() { sqlite3 -cmd '.timeout 10000' data.db "$1"; }
[ "$(ask 'select count(*), sum(price) from item')" = '20000|100005000.0' ]
[ "$(ask "select count(*) from words where words match 'item'")" = 200 ]
ask "explain query plan select * from item where name = 'item 7'" | grep 'USING INDEX by_name' > /dev/null
for writer in 1 2 3 4; do
    (for n in $(seq 25); do ask "insert into item (name) values ('writer $writer $n')"; done) &
done
wait
[ "$(ask "select count(*) from item where name like 'writer%'")" = 100 ]
ask "begin; delete from item; rollback" && [ "$(ask 'select count(*) from item')" = 20100 ]
sqlite3 data.db .dump | sqlite3 copy.db && [ "$(sqlite3 copy.db 'select count(*) from item')" = 20100 ]
sqlite3 -csv -header data.db 'select id, name from item limit 10' > item.csv
sqlite3 other.db -cmd '.mode csv' -cmd '.import item.csv item' 'select count(*) from item' > count && [ "$(cat count)" = 10 ]
[ "$(ask 'pragma wal_checkpoint(truncate); pragma integrity_check; vacuum;' | tail -n 1)" = ok ]
[ "$(ask "select json_extract('{\"a\": [1, 2]}', '\$.a[1]')")" = 2 ]
echo done
