"""A small OpenID Connect provider on the loopback, with real keys, which a test lets lie."""

import asyncio
import base64
import hashlib
import hmac
import html
import json
from urllib.parse import parse_qs, urlsplit

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

CLIENT, SECRET = "testbed", "s3cret/of+the:client"
KEYS = {name: RSAKey.generate_key(2048, {"kid": name}) for name in ("first", "second", "stranger")}
KEYS["curve"] = ECKey.generate_key("P-256", {"kid": "curve"})


class Provider:
    """`claims` and `sign` change what the next ID token says and how it is signed."""

    def __init__(self, clock):
        self.clock = clock
        self.published = ["first"]
        self.signer, self.algorithm = "first", "RS256"
        self.claims = {}
        self.discovery = {}
        self.filler = {}
        self.silent = False
        self.token_error = None
        self.requests = []
        self.codes = {}
        self.subject = "248289761001"

    async def start(self, host="127.0.0.1"):
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._discovery)
        app.router.add_get("/authorize", self._authorize)
        app.router.add_post("/token", self._token)
        app.router.add_get("/keys", self._keys)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await self._site.start()
        self.issuer = f"http://{host}:{self._site._server.sockets[0].getsockname()[1]}"

    async def stop(self):
        await self._runner.cleanup()

    def authorize(self, address):
        """Log in as the person does, without a browser; return where the browser is sent back."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256")
        code = f"code-{len(self.codes)}"
        self.codes[code] = query
        return f"{query['redirect_uri']}?code={code}&state={query['state']}"

    async def _authorize(self, request):
        # A page of the provider that the person leaves: without one browsers count the whole way as the dashboard's.
        link = f'<a href="{html.escape(self.authorize(str(request.url)))}">Allow</a>'
        return web.Response(text=link, content_type="text/html")

    async def _answer(self, path, data):
        self.requests.append(path)
        if self.silent:
            await asyncio.sleep(60)
        return web.json_response(data | ({"filler": "x" * self.filler[path]} if path in self.filler else {}))

    async def _discovery(self, _):
        document = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "scopes_supported": ["openid", "profile", "groups", "email"],
        }
        return await self._answer("discovery", document | self.discovery)

    async def _keys(self, _):
        keys = [KEYS[name].as_dict(private=False) | {"use": "sig"} for name in self.published]
        return await self._answer("keys", {"keys": keys})

    async def _token(self, request):
        form = await request.post()
        if self.token_error is not None:
            return web.json_response({"error": self.token_error}, status=400)
        query = self.codes.pop(form["code"], None)
        pair = base64.b64encode(f"{CLIENT}:s3cret%2Fof%2Bthe%3Aclient".encode()).decode()
        hashed = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = _encoded(hashed)
        if (
            query is None
            or request.headers.get("Authorization") != f"Basic {pair}"
            or (query["code_challenge"], query["redirect_uri"]) != (challenge, form["redirect_uri"])
        ):
            return web.json_response({"error": "invalid_grant"}, status=400)
        return await self._answer("token", {"access_token": "at-secret", "id_token": self.id_token(query["nonce"])})

    def id_token(self, nonce):
        now_s = self.clock() // 1000
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": self.subject,
            "exp": now_s + 300,
            "iat": now_s,
            "nonce": nonce,
            "preferred_username": "Ada",
            "email": "admin@example.org",
            "groups": ["staff", "students"],
        }
        claims = {name: value for name, value in (claims | self.claims).items() if value is not None}
        header = {"alg": self.algorithm, "kid": self.signer}
        if self.algorithm == "none":
            return f"{_signed_part(header, claims)}."
        key = KEYS[self.signer]
        if self.algorithm == "HS256":  # with the public key as the shared one
            part = _signed_part(header, claims)
            return f"{part}.{_encoded(hmac.digest(key.as_pem(private=False), part.encode(), 'sha256'))}"
        return jwt.encode(header, claims, key, algorithms=["RS256", "ES256", "RS512"])


def _signed_part(header, claims):
    return ".".join(_encoded(json.dumps(each).encode()) for each in (header, claims))


def _encoded(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
