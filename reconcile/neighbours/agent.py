"""AgentRuntime in local mode: an agent that somebody runs is where its spec says."""

from reconcile.cluster.port import AGENT_RUNTIME, ResourceKind
from reconcile.errors import Stalled
from reconcile.kinds.agent import RUNNING, with_port
from reconcile.kinds.reasons import NeighbourReason
from reconcile.runtime.reconciler import Done, Pass, Result


class AgentReconciler:
    """Copies `spec.endpoint` to the status, from which runs read it."""

    kind: ResourceKind = AGENT_RUNTIME

    async def reconcile(self, scope: Pass) -> Result:
        """Do one pass.

        Raises:
            Stalled: the spec gives no endpoint, and nothing here deploys an agent.
        """
        endpoint = scope.obj["spec"].get("endpoint")
        scope.status["phase"] = RUNNING if endpoint else "Pending"
        if not endpoint:
            scope.status.pop("serviceEndpoint", None)
            raise Stalled(NeighbourReason.ENDPOINT_MISSING, "nothing deploys an agent here, and spec.endpoint does not say where one listens")
        scope.status["serviceEndpoint"] = with_port(endpoint)
        return Done(NeighbourReason.ENDPOINT_GIVEN, f"taken to listen at {with_port(endpoint)}", final=True)
