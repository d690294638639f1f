# SPDX-License-Identifier: Apache-2.0
"""old_rgpud.py PORT_FILE: a server of before the filter "driver", which refuses what it does not
know."""
import http.server
import json
import sys


class Old(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"]))).get("wanted", {})
        known, text = "driver" not in wanted, 'wanted: has the unknown field "driver"'
        body = json.dumps(
            {"answer": "later", "reason": "in use"}
            if known
            else {"error": {"kind": "invalid", "text": text}}
        ).encode()
        self.send_response(200 if known else 400)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = http.server.HTTPServer(("127.0.0.1", 0), Old)
with open(sys.argv[1], "w") as port:
    port.write(str(server.server_port))
server.serve_forever()
