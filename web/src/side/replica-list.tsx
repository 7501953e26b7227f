import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { listReplicas, type ReplicaRow } from '../api.ts';
import { pollInterval } from '../state/poll.ts';
import { duration } from '../state/task-view.ts';

const POLL_MS = 3000;
/** Three heartbeats: from then on others may take what it ran. */
const SILENT_MS = 15_000;

/** Who runs what, where several servers share the log; nothing where there is one. */
export function Replicas(): VNode | null {
  const [replicas, setReplicas] = useState<readonly ReplicaRow[]>([]);
  useEffect(() => {
    // A server that does not answer is told elsewhere on the page.
    const polling = pollInterval(() => listReplicas().then(setReplicas, () => {}), POLL_MS);
    polling.now();
    return () => polling.stop();
  }, []);
  if (replicas.length < 2) return null;
  return (
    <section aria-label="Replicas">
      <h2>Replicas</h2>
      <ul class="replicas">
        {replicas.map((replica) => (
          <Replica key={replica.worker} replica={replica} />
        ))}
      </ul>
    </section>
  );
}

function Replica({ replica }: { readonly replica: ReplicaRow }): VNode {
  const { host, pid, here, claims, beatAgeMs, tasks } = replica;
  const silent = beatAgeMs > SILENT_MS;
  return (
    <li class={silent ? 'silent' : ''}>
      <span class="title">
        {host} · {pid}
        {here && ' (this one)'}
      </span>
      <span class="facts">
        {claims} running ·{' '}
        {silent ? `silent for ${duration(beatAgeMs)}: others take over` : 'alive'}
      </span>
      {tasks.map(({ task, agent, state }) => (
        <a key={task} href={`#${task}`}>
          {agent}, {state}
        </a>
      ))}
    </li>
  );
}
