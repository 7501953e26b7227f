import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { listReplicas, type ReplicaRow } from '../api/requests.ts';
import { pollInterval } from '../state/poll.ts';
import { duration } from '../state/format-time.ts';
import styles from './replica-list.module.css';

const POLL_MS = 3000;
/** Three heartbeats without a sign of life: from then on other replicas may claim its tasks. */
const SILENT_MS = 15_000;

/** The replicas that share the log, and the tasks that each runs. Hidden with a single server. */
export function Replicas(): VNode | null {
  const [replicas, setReplicas] = useState<readonly ReplicaRow[]>([]);
  useEffect(() => {
    // The task list reports a server that cannot be reached; a second message would repeat it.
    const polling = pollInterval(() => listReplicas().then(setReplicas, () => {}), POLL_MS);
    polling.now();
    return () => polling.stop();
  }, []);
  if (replicas.length < 2) return null;
  return (
    <section aria-label="Replicas" class={styles['panel']}>
      <h2>Replicas</h2>
      <ul class={styles['list']}>
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
    <li data-part="replica" data-silent={silent}>
      <span class={styles['title']}>
        {host} · {pid}
        {here && ' (this one)'}
      </span>
      <span class={styles['facts']}>
        {claims} running ·{' '}
        {silent ? `no heartbeat for ${duration(beatAgeMs)}; other replicas take over` : 'alive'}
      </span>
      {tasks.map(({ task, agent, state }) => (
        <a key={task} href={`#${task}`}>
          {agent}, {state}
        </a>
      ))}
    </li>
  );
}
