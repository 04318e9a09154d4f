"""A front of TLS and a login before a plain registry: tls_front.py PORT CERTIFICATE KEY BASIC. Says its own port."""
import http.client, http.server, ssl, sys

upstream, certificate, key, basic = sys.argv[1:]


class Front(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.headers.get("authorization") != "Basic " + open(basic).read().strip():
            self.send_response(401)
            self.send_header("www-authenticate", 'Basic realm="registry"')
            self.send_header("content-length", "0")
            self.end_headers()
            return
        behind = http.client.HTTPConnection("127.0.0.1", int(upstream))
        kept = {name: value for name, value in self.headers.items() if name.lower() not in ("authorization", "connection")}
        behind.request(self.command, self.path, headers=kept)
        answer = behind.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "server", "date"):
                self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        while piece := answer.read(65536):
            self.wfile.write(piece)
        self.close_connection = True

    do_HEAD = do_GET


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Front)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
