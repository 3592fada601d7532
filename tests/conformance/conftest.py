"""The cases are no test modules, but their assertions should explain themselves as if they were."""

import pytest

pytest.register_assert_rewrite(
    *(
        f"tests.conformance.{name}"
        for name in ("custom", "deleting", "listing", "objects", "patching", "pods", "scaling", "watching")
    )
)
