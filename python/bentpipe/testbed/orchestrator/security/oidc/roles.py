"""Which role a person of a provider has: a small file that an administrator keeps."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from bentpipe.errors import UserError
from bentpipe.records import Record, Text
from bentpipe.testbed.orchestrator.security.roles import Role
from bentpipe.testbed.schemas.yaml_text import LARGEST, parse_yaml


class RoleMap(Record):
    """Roles by subject and by group.

    Example:
        >>> roles = RoleMap(subjects={"7": "admin"}, groups={"staff": "host", "all": "viewer"})
        >>> roles.role_of("7", ["all"]), roles.role_of("8", ["all", "staff"]), roles.role_of("9", [])
        ('admin', 'host', None)
    """

    claim: Text = "groups"
    """Claim of the ID token with the names of groups."""
    subjects: dict[str, Role] = Field(default_factory=dict)
    """Subject → role; it wins over groups."""
    groups: dict[str, Role] = Field(default_factory=dict)
    """Group → role; of several the first line of the file wins."""

    @classmethod
    def read(cls, file: Path | None) -> RoleMap:
        """Read a file; None: no roles. Raises `UserError`."""
        if file is None:
            return cls()
        try:
            with file.open(encoding="utf-8") as opened:
                text = opened.read(LARGEST + 1)
        except OSError as error:
            raise UserError(f"{file}: {error.strerror}", where="oidc_groups", expected="a file") from None
        except UnicodeDecodeError:
            raise UserError(f"{file}: no UTF-8", where="oidc_groups", expected="YAML") from None
        return cls.check(parse_yaml(text, str(file)), str(file))

    def role_of(self, subject: str, groups: list[str]) -> Role | None:
        """Return the role of a person; None: none."""
        if subject in self.subjects:
            return self.subjects[subject]
        return next((role for group, role in self.groups.items() if group in groups), None)
