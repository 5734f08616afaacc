"""What the OpenAPI document says that a call can answer; the clients of the tests hold every answer against it."""

import re

_found = []


def operations(app):
    """Of each call: its method, its path, a pattern of the path, and the statuses that it can answer."""
    if not _found:  # all coordinators have the same
        for path, methods in app.openapi()["paths"].items():
            for method, call in methods.items():
                _found.append((method.upper(), path, _pattern(path), {int(status) for status in call["responses"]}))
    return _found


def _pattern(path):
    return re.compile(re.sub("{.*?}", lambda found: "(.+)" if found[0] == "{device_id}" else "([^/]+)", path))


def checker(app):
    """A hook for clients. Raises unless the document says that this call can answer so; 500 is a fault of its own."""

    def check(response):
        method, path = response.request.method, response.request.url.path
        calls = [one for one in operations(app) if one[0] == method and one[2].fullmatch(path)]
        if calls:
            call = max(calls, key=lambda one: len(one[1]))
            assert response.status_code in call[3] | {500}, f"{method} {call[1]} does not list {response.status_code}"

    return check
