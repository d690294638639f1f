# SPDX-License-Identifier: Apache-2.0
"""A Chromium without a screen, driven by WebDriver: what tests of the page look at it with.

    with Browser(1280, 900) as b:
        b.go('http://127.0.0.1:7712/#token=...')
        b.until('document.querySelectorAll(".gpu").length === 16')
        b.keys('ArrowDown')
        b.messages()      # what the console said since the last call
        b.requested()     # every address that was asked for
"""

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

# WebDriver's code points of keys (section 17.4.2).
KEYS = {
    'Tab': '\ue004',
    'Enter': '\ue007',
    'Shift': '\ue008',
    'Escape': '\ue00c',
    'PageDown': '\ue00f',
    'End': '\ue010',
    'Home': '\ue011',
    'ArrowLeft': '\ue012',
    'ArrowUp': '\ue013',
    'ArrowRight': '\ue014',
    'ArrowDown': '\ue015',
}


class Refused(Exception):
    """What the driver says where a command fails."""


class Browser:
    def __init__(self, width=1280, height=900):
        # A test that ends this program ends the browser, too: close() runs.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        self.profile = tempfile.mkdtemp(prefix='rgpu-browser.')
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            port = free.getsockname()[1]
        self.at = f'http://127.0.0.1:{port}'
        self.driver = subprocess.Popen(
            ['chromedriver', f'--port={port}', '--log-level=SEVERE'],
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.session = ''
        self.log = []
        try:
            self.start(width, height)
        except BaseException:
            self.close()
            raise

    def start(self, width, height):
        self.wait(lambda: self.ask('GET', '/status')['ready'], 'chromedriver')
        arguments = [
            '--headless=new',
            '--no-first-run',
            '--disable-background-networking',
            '--disable-component-update',
            f'--user-data-dir={self.profile}',
            f'--window-size={width},{height}',
        ]
        if os.getuid() == 0:
            arguments.append('--no-sandbox')
        made = self.ask(
            'POST',
            '/session',
            {
                'capabilities': {
                    'alwaysMatch': {
                        'goog:chromeOptions': {
                            'binary': shutil.which('chromium'),
                            'args': arguments,
                        },
                        'goog:loggingPrefs': {'browser': 'ALL', 'performance': 'ALL'},
                        'timeouts': {'script': 120000},
                    }
                }
            },
        )
        self.session = f'/session/{made["sessionId"]}'

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.session:
            try:
                self.ask('DELETE', self.session)
            except (Refused, OSError):
                pass
        self.driver.terminate()
        self.driver.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def ask(self, method, path, body=None):
        data = None if method != 'POST' else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.at + path, data, method=method)
        request.add_header('Content-Type', 'application/json')
        try:
            with urllib.request.urlopen(request, timeout=180) as answer:
                return json.load(answer)['value']
        except urllib.error.HTTPError as failure:
            raise Refused(json.load(failure)['value']['message']) from None

    def wait(self, condition, what, limit=30):
        until, said = time.monotonic() + limit, ''
        while True:
            try:
                if result := condition():
                    return result
                said = ''
            except (Refused, OSError) as failure:
                said = f': {failure}'
            if time.monotonic() > until:
                raise TimeoutError(f'waited in vain for {what}{said}')
            time.sleep(0.05)

    def post(self, path, **body):
        return self.ask('POST', self.session + path, body)

    def cdp(self, command, **parameters):
        return self.post('/goog/cdp/execute', cmd=command, params=parameters)

    def go(self, address):
        self.post('/url', url=address)

    def js(self, expression, *arguments):
        """The value of an expression of JavaScript; arguments are a[0], a[1] ..."""
        script = f'const a = arguments; return ({expression});'
        return self.post('/execute/sync', script=script, args=list(arguments))

    def later(self, body):
        """Of a body that calls done(value) some time."""
        script = f'const done = arguments[arguments.length - 1]; {body}'
        return self.post('/execute/async', script=script, args=[])

    def until(self, expression, *arguments, limit=30):
        return self.wait(lambda: self.js(expression, *arguments), expression, limit)

    def keys(self, *names):
        """Presses and releases each; 'Shift+Home' holds one meanwhile. Text is typed as it is."""
        actions = []
        for name in names:
            parts = name.split('+') if name != '+' else [name]
            codes = [KEYS.get(part, part) for part in parts]
            actions += [{'type': 'keyDown', 'value': code} for code in codes]
            actions += [{'type': 'keyUp', 'value': code} for code in reversed(codes)]
        self.post('/actions', actions=[{'type': 'key', 'id': 'keys', 'actions': actions}])

    def click(self, selector):
        found = self.post('/element', using='css selector', value=selector)
        self.post(f'/element/{next(iter(found.values()))}/click')

    def text(self, selector):
        return self.js('document.querySelector(a[0])?.innerText', selector)

    def window(self, width, height):
        """The size of the page, which may be less than a window's least."""
        self.cdp(
            'Emulation.setDeviceMetricsOverride',
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def theme(self, name):
        features = [{'name': 'prefers-color-scheme', 'value': name}]
        self.cdp('Emulation.setEmulatedMedia', features=features)

    def screenshot(self, path):
        with open(path, 'wb') as file:
            file.write(base64.b64decode(self.ask('GET', self.session + '/screenshot')))

    def messages(self):
        """Warnings and errors of the console, also those of the network and of the CSP."""
        logged = self.post('/se/log', type='browser')
        return [m['message'] for m in logged if m['level'] in ('WARNING', 'SEVERE')]

    def requested(self):
        """Each address that pages have asked for since the browser's start."""
        for line in self.post('/se/log', type='performance'):
            message = json.loads(line['message'])['message']
            if message['method'] == 'Network.requestWillBeSent':
                self.log.append(message['params']['request']['url'])
        return self.log
