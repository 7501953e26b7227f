import { expect, test } from 'vitest';
import { connectA2A } from '../../src/a2a/index.ts';
import { Place } from './support.ts';

const AGENT = `
export default async function* (turn, ctx) {
  yield { type: 'status', message: 'here' };
  await new Promise(() => {});
}
export const options = { auth: { bearer: 'of the module' }, graceMs: 100, page: false };
`;

test('duolane serve passes the options of a module on, and SIGTERM ends an unresponsive run with its final event', async () => {
  await using place = await Place.open();
  const file = await place.write('agent.mjs', AGENT);
  const running = place.start(['serve', file, '--port', '0', '--store', 'memory', '--json']);
  const [said] = await running.says(/\{.*\}/);
  const { url } = JSON.parse(said) as { url: string };
  expect((await fetch(`${url}/api/tasks`)).status).toBe(401);
  const headers = { authorization: 'Bearer of the module' };
  const stream = (await connectA2A(url, { headers })).stream('go', { retryForMs: 2000 });
  for await (const event of stream)
    if ('statusUpdate' in event && event.statusUpdate.status.message) running.child.kill('SIGTERM');
  expect(stream.status?.state).toBe('TASK_STATE_FAILED');
  expect(await running.end()).toMatchObject({ code: 0, signal: null });
});

test('duolane serve holds the quota of an owner that a module sets, in the store that it opens', async () => {
  await using place = await Place.open();
  const source = `export const options = { limits: { maxQueuedPerOwner: 1 }, page: false };
export default async function* () {}`;
  const file = await place.write('agent.mjs', source);
  const flags = ['--port', '0', '--store', 'memory', '--json', '--max-runs', '0'];
  const running = place.start(['serve', file, ...flags]);
  const [said] = await running.says(/\{.*\}/);
  const { url } = JSON.parse(said) as { url: string };
  const submit = async (): Promise<number> => {
    const headers = { 'content-type': 'application/json' };
    const init = { method: 'POST', headers, body: '{"text":"hi"}' };
    return (await fetch(`${url}/api/agents/agent/turns`, init)).status;
  };
  expect([await submit(), await submit()]).toEqual([201, 429]);
});
