"""Settings of the login at a provider: flags, the secret's file, the redirect URI, the file of roles."""

import re
from dataclasses import replace

import pytest
from testbed_orchestrators import Clock
from testbed_provider import SECRET

from bentpipe.errors import UserError
from bentpipe.testbed.orchestrator.security.oidc.login import OidcLogin
from bentpipe.testbed.orchestrator.security.oidc.roles import RoleMap
from bentpipe.testbed.orchestrator.security.oidc.settings import OidcSettings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"issuer": "http://id.example.org"}, "oidc_issuer: http://id.example.org; expected https"),
        ({"issuer": "https://user@id.example.org"}, "oidc_issuer"),
        ({"issuer": "https://id.example.org/?x"}, "oidc_issuer"),
        ({"issuer": "https://"}, "oidc_issuer"),
        ({"issuer": f"https://{'x' * 200}"}, "at most 140"),
        ({"client": None}, "oidc_client: missing"),
        ({"secret_file": None}, "oidc_secret_file: missing"),
        ({"secret_file": "none"}, "none: No such file"),
        ({"secret_file": "empty"}, "no secret"),
        ({"dashboard": "http://testbed.example.org"}, "oidc_url"),
        ({"dashboard": "https://testbed.example.org/x"}, "oidc_url"),
    ],
)
def test_settings_that_are_wrong_are_one_line(tmp_path, change, message):
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    (tmp_path / "empty").write_text("\n")
    flags = {"issuer": "https://id.example.org", "client": "c", "secret_file": "secret"}
    good = OidcSettings.of(**(flags | {"secret_file": tmp_path / "secret"}))
    assert good.secret == SECRET
    assert SECRET not in repr(good)
    flags |= change
    if flags["secret_file"] is not None:
        flags["secret_file"] = tmp_path / flags["secret_file"]
    with pytest.raises(UserError, match=re.escape(message)):
        OidcSettings.of(**flags)


def test_the_redirect_uri_is_fixed_and_has_tls_but_on_the_loopback():
    settings = OidcSettings("https://id.example.org", "c", SECRET)

    def login(url, public=None, **changes):
        return OidcLogin.open(replace(settings, **changes), b"k" * 32, Clock(), url, public)

    assert login("http://127.0.0.1:8791").redirect == "http://127.0.0.1:8791/login/oidc/callback"
    proxied = login("http://127.0.0.1:8791", "testbed.example.org")
    assert (proxied.redirect, proxied.is_secure) == ("https://testbed.example.org/login/oidc/callback", True)
    other = login("http://0.0.0.0:80", "a.example", dashboard="https://b.example:444")
    assert other.redirect == "https://b.example:444/login/oidc/callback"
    with pytest.raises(UserError, match="oidc_url: missing; expected https"):
        login("http://0.0.0.0:80")


@pytest.mark.parametrize("text", ["groups: {a: king}", "groups: {1: viewer}", "roles: {}", "[]", "groups: &a {}"])
def test_a_file_of_roles_with_a_mistake_is_refused(tmp_path, text):
    file = tmp_path / "roles.yml"
    file.write_text(text)
    with pytest.raises(UserError, match=r"roles\.yml"):
        RoleMap.read(file)
    with pytest.raises(UserError, match="none"):
        RoleMap.read(tmp_path / "none")
