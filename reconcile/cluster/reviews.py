"""The Reviews port: questions that an API server answers at once and stores nowhere, so that they are no objects of the Cluster port.

Whose a token is, and what somebody may do (https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1/ and
…/authorization-resources/subject-access-review-v1/). To ask takes the rights of the ClusterRole `system:auth-delegator`.
"""

from typing import Protocol

from reconcile.cluster.port import Object, ResourceKind

TOKEN_REVIEW = ResourceKind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
SUBJECT_ACCESS_REVIEW = ResourceKind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)


class Reviews(Protocol):
    """Asks an API server for a verdict."""

    async def review(self, kind: ResourceKind, spec: Object) -> Object:
        """Return the status that the server gives to a review of this spec, {} for none.

        Raises:
            Forbidden: we may not ask.
            StoreUnavailable: the server does not answer.
            ClusterError: it refuses the question.
        """
