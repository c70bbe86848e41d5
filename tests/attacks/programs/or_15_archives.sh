# Archives and compression: what goes in comes out, with modes, links and times; streams, many at once, broken ones.
set -euo pipefail
is() { [ "$(cat)" = "$1" ]; }
has() { grep -- "$1" > /dev/null; }
cd /tmp
mkdir -p in/deep
head -c 300000 /dev/urandom > in/random
yes 'the same line over and over' | head -n 50000 > in/deep/text || [ $? = 141 ]
chmod 750 in/deep; chmod 640 in/random; ln -s deep/text in/link; ln in/random in/hard
touch -d '2001-02-03 04:05:06' in/deep/text
state() { (cd "$1" && find . -printf '%p %m %l\n' | sort && stat -c %Y deep/text && sha256sum random deep/text); }
state in > wanted
for how in z:gz j:bz2 J:xz; do
    tar "c${how%%:*}f" "all.tar.${how#*:}" -C in .
    mkdir "out.${how#*:}" && tar xf "all.tar.${how#*:}" -C "out.${how#*:}"
    state "out.${how#*:}" | diff - wanted
done
tar c -C in . | zstd -q -T2 | zstd -qd | tar t | wc -l | is 6
(cd in && zip -qr ../all.zip . -x link) && mkdir unzipped && unzip -q all.zip -d unzipped && cmp unzipped/deep/text in/deep/text
for tool in gzip bzip2 xz zstd; do
    $tool -k -q -c in/deep/text > packed.$tool & 
done
wait
for tool in gzip bzip2 xz zstd; do
    $tool -dc < packed.$tool | cmp - in/deep/text
    [ "$(stat -c %s packed.$tool)" -lt 50000 ]
    if head -c 50 packed.$tool | $tool -dc > /dev/null 2>&1; then exit 1; fi
done
xz -T2 -k in/random -c | xz -t
base64 in/random | base64 -d | cmp - in/random
dd if=/dev/zero of=sparse bs=1M seek=50 count=1 status=none && [ "$(du -m sparse | cut -f1)" -le 2 ]
cp --sparse=always --reflink=auto sparse copy && cmp sparse copy
(cd in && sha256sum random | sha256sum -c --quiet) && md5sum in/hard | has "$(md5sum < in/random | cut -d' ' -f1)"
echo done
