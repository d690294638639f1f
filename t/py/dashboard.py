#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks a Prometheus for every expression of a Grafana dashboard and of a file of rules.

    dashboard.py URL DASHBOARD RULES

Prints a line for each: "ok" or what is wrong, and the expression. An expression of the dashboard
must have a value, and one of the rules must be one that Prometheus can evaluate. A metric of ours
that has never been scraped is wrong in both, but for those of trouble, which a sound server lacks.
"""

import json
import re
import sys
import urllib.parse
import urllib.request

ONLY_IN_TROUBLE = {'rgpu_health_finding'}


def ask(url, path, **arguments):
    query = urllib.parse.urlencode(arguments)
    try:
        with urllib.request.urlopen(f'{url}/api/v1/{path}?{query}', timeout=20) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        return json.load(refused)


def of_dashboard(path):
    with open(path, encoding='utf-8') as file:
        dashboard = json.load(file)
    ids = [panel['id'] for panel in dashboard['panels']]
    assert len(ids) == len(set(ids)), 'two panels have one number'
    for panel in dashboard['panels']:
        for target in panel['targets']:
            expression = target['expr'].replace('$__rate_interval', '30s')
            yield expression.replace('$server', '.*')


def of_rules(path):
    # Read as text: a parser of YAML is no part of Python's.
    with open(path, encoding='utf-8') as file:
        found = re.findall(r'^ +expr: (?:\|\n((?:          .*\n)+)|(.*)\n)', file.read(), re.M)
    for block, line in found:
        yield ' '.join(block.split()) if block else line


def main():
    url, dashboard, rules = sys.argv[1:]
    names = set(ask(url, 'label/__name__/values')['data'])

    def judge(expression, must_have):
        missing = set(re.findall(r'\brgpu_\w+', expression)) - names - ONLY_IN_TROUBLE
        if missing:
            return f'no series of {", ".join(sorted(missing))}'
        answer = ask(url, 'query', query=expression)
        if answer['status'] != 'success':
            return answer['error']
        if must_have and not answer['data']['result']:
            return 'has no value'
        return 'ok'

    for expression in of_dashboard(dashboard):
        print(judge(expression, True), expression)
    for expression in of_rules(rules):
        print(judge(expression, False), expression)


if __name__ == '__main__':
    main()
