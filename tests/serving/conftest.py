"""Served teachers that are closed in the end."""

import pytest

from escd import lab
from escd.teachers.served import VLLMTeacher

from .fake import NAME, FakeServer


@pytest.fixture
def server():
    with FakeServer() as fake:
        yield fake


@pytest.fixture
def make():
    made = []

    def teacher(*servers, name=lab.TEACHER_PATH, served_name=NAME, deadline=5.0, **options):
        urls = [s if isinstance(s, str) else s.url for s in servers]
        made.append(VLLMTeacher(name, urls, served_name=served_name, deadline=deadline, **options))
        return made[-1]

    yield teacher
    for teacher in made:
        teacher.servers.close()
