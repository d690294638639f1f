# SPDX-License-Identifier: Apache-2.0
"""made_up_server.py PORT_FILE breaks|old: a server that takes its offer back, or one of before
--span."""
import http.server
import json
import sys

how = sys.argv[2]
gpus = [
    {"index": i, "uuid": "GPU-%d" % i, "name": "None", "share": 100, "most": 100, "memory": 1}
    for i in range(2)
]
fit = {"whole_taken": 2, "whole_left": 0, "share_left": 0, "distance": 0, "load": 0}


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "{}")
        if self.path != "/v1/offers":
            self.say(503, {"error": {"kind": "unavailable", "text": "it has thought better of it"}})
        elif how == "breaks":
            self.say(
                200,
                {
                    "answer": "now",
                    "id": "0" * 32,
                    "expires_in_ms": 5000,
                    "gpus": gpus,
                    "fit": fit,
                    "fitting": 2,
                },
            )
        elif "span" in request:
            self.say(
                400, {"error": {"kind": "invalid", "text": 'request: has the unknown field "span"'}}
            )
        else:
            self.say(200, {"answer": "later", "reason": "in use"})

    def do_DELETE(self):
        self.say(200, {})

    def say(self, status, json_of):
        body = json.dumps(json_of).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = http.server.HTTPServer(("127.0.0.1", 0), Server)
with open(sys.argv[1], "w") as port:
    port.write(str(server.server_port))
server.serve_forever()
