// Passes requests on to a server with a token that whoever sends them does not know: the conformance suite has no way
// to send one. Everything else, such as `Host` and `Origin`, arrives as it was sent.
//
//   MCP_ADDRESS=http://127.0.0.1:PORT MCP_TOKEN=… node bearer.mjs     prints the address at which it listens
import http from "node:http";

const { hostname, port } = new URL(process.env.MCP_ADDRESS);
const authorization = `Bearer ${process.env.MCP_TOKEN}`;

const server = http.createServer((asked, answer) => {
  const { method, url: path, headers } = asked;
  const passed = http.request({ hostname, port, method, path, headers: { ...headers, authorization } }, (answered) => {
    answer.writeHead(answered.statusCode, answered.headers);
    answer.flushHeaders();
    answered.pipe(answer);
  });
  passed.on("error", () => answer.destroy());
  // Whoever hangs up here hangs up there.
  answer.on("close", () => passed.destroy());
  asked.pipe(passed);
});

server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
