# SPDX-License-Identifier: Apache-2.0
"""made_up_prometheus.py PORT_FILE ASKED: answers range queries as the file named HOW beside ASKED
says: fails, numbers, silent, or the JSON to answer; each query is a line of ASKED."""
import http.server
import json
import os
import sys
import time
import urllib.parse

port_file, asked = sys.argv[1:]


class Prometheus(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        place, _, query = self.path.partition("?")
        told = urllib.parse.parse_qs(query)
        with open(asked, "a", encoding="utf-8") as log:
            log.write(f"{place} {told['query'][0]} {int(told['end'][0]) - int(told['start'][0])}\n")
        with open(os.path.dirname(asked) + "/HOW", encoding="utf-8") as how:
            self.answer(how.read().strip(), int(told["end"][0]))

    def answer(self, how, end):
        if how == "silent":
            time.sleep(60)
        if how.startswith("{"):
            return self.say(200, how.encode())
        if how == "fails":
            return self.say(
                422, json.dumps({"status": "error", "error": "too many points"}).encode()
            )
        values = [[end - 60, "NaN"], [end, "12.5"]]
        self.say(
            200,
            json.dumps(
                {
                    "status": "success",
                    "data": {"resultType": "matrix", "result": [{"metric": {}, "values": values}]},
                }
            ).encode(),
        )

    def say(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Prometheus)
with open(port_file + ".new", "w", encoding="utf-8") as out:
    out.write(str(server.server_address[1]))
os.rename(port_file + ".new", port_file)
server.serve_forever()
