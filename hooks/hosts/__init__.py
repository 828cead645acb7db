"""The git hosts whose deliveries are understood, one file each.

The only place that lists them; their names are those of `spec.external.webhook.host`.
"""

from collections.abc import Mapping

from hooks.delivery import GitHost
from hooks.hosts.azure_devops import AzureDevOps
from hooks.hosts.bitbucket import Bitbucket
from hooks.hosts.bitbucket_server import BitbucketServer
from hooks.hosts.generic import Generic
from hooks.hosts.gitea import Gitea
from hooks.hosts.github import GitHub
from hooks.hosts.gitlab import GitLab

_ALL: tuple[GitHost, ...] = (GitHub(), GitLab(), Gitea(), Bitbucket(), BitbucketServer(), AzureDevOps(), Generic())

HOSTS: Mapping[str, GitHost] = {host.name: host for host in _ALL}
"""Every git host by its name."""
