// A loopback proxy that adds the bearer token: the conformance runner has no way to send one. Everything else passes as it is, the Host header too.
//
// Usage: node token_proxy.mjs TARGET_PORT   (the token is read from STEAD_TOKEN; prints its own port)
import http from "node:http";

const target = Number(process.argv[2]);
const server = http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${process.env.STEAD_TOKEN}` };
  const forward = http.request(
    { host: "127.0.0.1", port: target, method: request.method, path: request.url, headers, setHost: false },
    (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    },
  );
  forward.on("error", () => response.destroy());
  response.on("close", () => forward.destroy());
  request.pipe(forward);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
