import type { Answer } from '../../src/ask.ts';
import type { Entry } from '../../src/event/types.ts';
import type { AgentCardLite, TaskRow } from '../../src/serve/api.ts';

export type { AgentCardLite, TaskRow };

async function json<T>(path: string, body?: unknown): Promise<T> {
  const response = await fetch(path, {
    ...(body !== undefined && {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }),
  });
  const value = (await response.json()) as T & { error?: { message: string } };
  if (!response.ok)
    throw new Error(value.error?.message ?? `the server answered ${response.status}`);
  return value;
}

export const listAgents = async (): Promise<readonly AgentCardLite[]> =>
  (await json<{ agents: AgentCardLite[] }>('/api/agents')).agents;

export const listTasks = async (): Promise<readonly TaskRow[]> =>
  (await json<{ tasks: TaskRow[] }>('/api/tasks')).tasks;

export const startTask = (agent: string, text: string): Promise<{ task: string }> =>
  json(`/api/agents/${encodeURIComponent(agent)}/turns`, { text });

export const sendAnswer = (task: string, answer: Answer): Promise<unknown> =>
  json(`/api/tasks/${encodeURIComponent(task)}/turns`, { answers: [answer] });

export const cancelTask = (task: string): Promise<unknown> =>
  json(`/api/tasks/${encodeURIComponent(task)}/cancel`, {});

export interface Subscription {
  close(): void;
}

/** Entries behind `after`, in order; the browser itself resumes a cut stream by the last id. */
export function subscribe(
  task: string,
  after: number,
  on: { entry(entry: Entry): void; state(state: 'live' | 'cut' | 'ended'): void },
): Subscription {
  const source = new EventSource(`/api/tasks/${encodeURIComponent(task)}/entries?after=${after}`);
  source.onopen = () => on.state('live');
  source.onmessage = ({ data }) => on.entry(JSON.parse(data as string) as Entry);
  source.onerror = () => on.state('cut');
  source.addEventListener('end', () => {
    source.close();
    on.state('ended');
  });
  return { close: () => source.close() };
}
