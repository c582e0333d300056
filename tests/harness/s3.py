"""An S3 server on loopback with a bucket, for tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest


@contextmanager
def s3_server() -> Iterator[tuple[str, Mapping[str, str]]]:
    """URL of an empty bucket, and what the environment of all who use it must hold."""
    server = pytest.importorskip("moto.server", reason="moto[server] is not installed").ThreadedMotoServer(
        "127.0.0.1", port=0, verbose=False
    )
    import botocore.session

    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    try:
        client = botocore.session.get_session().create_client(
            "s3",
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            aws_access_key_id="test",
            aws_secret_access_key="test",
            region_name="us-east-1",
        )
        client.create_bucket(Bucket="ptqlab")
        yield "s3://ptqlab", environment
    finally:
        server.stop()
