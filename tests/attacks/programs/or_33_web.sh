# A service and its clients: a web server of python, curl in many ways, jq on what comes back, a worker in the background.
set -euo pipefail
cd /tmp && mkdir -p site && cd site
seq 500 | jq -n '[inputs | {id: ., square: (. * .), even: (. % 2 == 0)}]' > data.json
head -c 2000000 /dev/urandom > big
python3 -m http.server --bind 127.0.0.1 8765 > ../log 2>&1 &
server=$!
curl -s --retry 20 --retry-connrefused --retry-delay 0 --retry-max-time 20 http://127.0.0.1:8765/data.json > ../data.json
jq -e 'length == 500 and (map(select(.even).square) | add) == 20958500' ../data.json > /dev/null
jq -r '.[:3][] | "\(.id),\(.square)"' ../data.json | paste -sd' ' | grep -x '1,1 2,4 3,9' > /dev/null
jq -s 'group_by(.even) | map(length)' <(jq '.[]' ../data.json) | jq -e '. == [250, 250]' > /dev/null
curl -s -o ../big http://localhost:8765/big && cmp ../big big
[ "$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8765/nothing)" = 404 ]
curl -sI http://127.0.0.1:8765/big | grep -i '^content-length: 2000000' > /dev/null
seq 20 | xargs -P 10 -I{} curl -s -o ../copy-{} http://127.0.0.1:8765/big
for n in $(seq 20); do cmp "../copy-$n" big; done
[ "$(curl -s "file:///tmp/site/data.json" | jq length)" = 500 ]
if curl -s --max-time 5 http://192.0.2.1/ > /dev/null; then exit 1; fi
if curl -s --max-time 5 http://example.org/ > /dev/null; then exit 1; fi
kill $server && { wait $server || [ $? = 143 ]; }
grep -c '"GET /big' ../log | grep -x 21 > /dev/null
touch ../beat
(while :; do date +%s%N >> ../beat; sleep 0.02; done) & beat=$!
until [ "$(wc -l < ../beat)" -ge 3 ]; do sleep 0.05; done; kill $beat
echo done
