# Keys, certificates and a connection under TLS to itself; digests, signatures, encryption, random numbers.
set -euo pipefail
cd /tmp
openssl ecparam -name prime256v1 -genkey -noout -out ca.key
openssl req -x509 -key ca.key -subj /CN=authority -days 2 -out ca.pem
openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out server.key 2> /dev/null
openssl req -new -key server.key -subj /CN=localhost -out server.csr
printf 'subjectAltName=DNS:localhost\n' > names
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 1 -extfile names -out server.pem 2> /dev/null
openssl verify -CAfile ca.pem server.pem > /dev/null
echo 'a page' > page
openssl s_server -accept 4433 -cert server.pem -key server.key -WWW -quiet > /dev/null 2>&1 &
for _ in $(seq 50); do
    if curl -s --cacert ca.pem https://localhost:4433/page > got 2> /dev/null; then break; fi
    sleep 0.1
done
cmp page got
curl -s https://localhost:4433/page > /dev/null 2>&1 && exit 1
printf 'GET /page HTTP/1.0\r\n\r\n' > request
openssl s_client -connect localhost:4433 -CAfile ca.pem -verify_return_error -tls1_3 -quiet < request > answer 2> /dev/null
grep 'a page' answer > /dev/null
kill %1

head -c 1000000 /dev/urandom > data
openssl dgst -sha256 -sign server.key -out signature data
openssl dgst -sha256 -verify <(openssl pkey -in server.key -pubout) -signature signature data > /dev/null
openssl enc -aes-256-cbc -pbkdf2 -pass pass:secret -in data -out sealed
openssl enc -d -aes-256-cbc -pbkdf2 -pass pass:secret -in sealed | cmp - data
# One wrong password in 256 finds a padding that looks right, but never the data
openssl enc -d -aes-256-cbc -pbkdf2 -pass pass:wrong -in sealed > opened 2> /dev/null && cmp -s opened data && exit 1
[ "$(openssl rand -hex 16 | wc -c)" = 33 ]
[ "$(openssl dgst -sha256 -r data | cut -d' ' -f1)" = "$(sha256sum data | cut -d' ' -f1)" ]
python3 - << 'PYTHON'
import socket, ssl, threading
there = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
there.load_cert_chain("server.pem", "server.key")
server = socket.create_server(("127.0.0.1", 0))
def serve():
    with there.wrap_socket(server.accept()[0], server_side=True) as line:
        line.sendall(line.recv(100)[::-1])
threading.Thread(target=serve).start()
here = ssl.create_default_context(cafile="ca.pem")
with here.wrap_socket(socket.create_connection(server.getsockname()), server_hostname="localhost") as line:
    line.sendall(b"abc")
    assert line.recv(100) == b"cba" and line.version() == "TLSv1.3"
PYTHON
echo done
