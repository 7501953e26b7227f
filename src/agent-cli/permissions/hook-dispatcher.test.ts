import { expect, onTestFinished, test, vi } from 'vitest';
import { combine, HookDispatcher } from './hook-dispatcher.ts';
import { ControlLink } from '../../wire/control-link.ts';
import type { JsonObject } from '../../json.ts';

/** Hooks whose host answers each callback id with a function. */
function hooksWith(answers: Record<string, unknown>) {
  const asked: JsonObject[] = [];
  const failures: string[] = [];
  const lane: ControlLink = new ControlLink({
    side: 'agent',
    write: (frame) => {
      asked.push(frame);
      const { request_id, request } = frame as { request_id: string; request?: JsonObject };
      const answer = request && answers[String(request['callback_id'])];
      if (answer === undefined) return;
      const body =
        answer instanceof Error
          ? { subtype: 'error', request_id, error: answer.message }
          : { subtype: 'success', request_id, response: answer };
      queueMicrotask(() => lane.receive({ type: 'control_response', response: body }));
    },
    handle: () => ({ ok: true }),
  });
  const hooks = new HookDispatcher({
    lane,
    base: () => ({ cwd: '/x' }),
    onFailure: (event, why) => failures.push(`${event}: ${why}`),
  });
  return { hooks, asked, failures };
}
const options = { signal: new AbortController().signal, toolUseId: 't1', subject: 'Bash' };

test('the strictest word wins, the last change wins, all context is kept', () => {
  const outcome = combine([
    { decision: 'allow', reason: 'fine', context: ['a'], updatedInput: { x: 1 } },
    { decision: 'deny', reason: 'no', context: ['b'] },
    { decision: 'ask', reason: 'hm', context: [], updatedInput: { x: 2 } },
  ]);
  expect(outcome).toMatchObject({
    decision: 'deny',
    reason: 'no',
    context: ['a', 'b'],
    updatedInput: { x: 2 },
  });
});

test('only matchers that fit are asked, with the fields that all inputs have', async () => {
  const { hooks, asked } = hooksWith({ h1: {}, h2: {}, h3: {} });
  const matchers = [
    { hookCallbackIds: ['h1'] },
    { matcher: 'Edit|Write', hookCallbackIds: ['h2'] },
    { matcher: 'B.*', hookCallbackIds: ['h3'] },
  ];
  expect(
    hooks.register({ PreToolUse: matchers, PreCompact: [{ hookCallbackIds: ['never'] }] }),
  ).toBe(4);
  await hooks.fire('PreToolUse', { tool_name: 'Bash' }, options);
  expect(asked.map(({ request }) => request)).toMatchObject([
    {
      callback_id: 'h1',
      tool_use_id: 't1',
      input: { cwd: '/x', hook_event_name: 'PreToolUse', tool_name: 'Bash' },
    },
    { callback_id: 'h3' },
  ]);
});

test('a callback that fails has no opinion, unless it was registered to block then', async () => {
  const { hooks, failures } = hooksWith({ h1: new Error('exploded') });
  hooks.register({ PreToolUse: [{ hookCallbackIds: ['h1'] }] });
  expect(await hooks.fire('PreToolUse', {}, options)).toEqual({ reason: '', context: [] });
  expect(failures[0]).toContain('exploded');
  hooks.register({ PreToolUse: [{ hookCallbackIds: ['h1'], onFailure: 'block' }] });
  expect((await hooks.fire('PreToolUse', {}, options)).unanswered).toContain('exploded');
});

test('a callback that does not answer in time is withdrawn', async () => {
  const { hooks, asked } = hooksWith({});
  hooks.register({ PreToolUse: [{ hookCallbackIds: ['h1'], timeout: 0.02 }] });
  expect((await hooks.fire('PreToolUse', {}, options)).unanswered).toContain(
    'did not answer within 0.02 s',
  );
  expect(asked.at(-1)).toMatchObject({ type: 'control_cancel_request' });
});

test('an abort ends the wait with its reason', async () => {
  const { hooks } = hooksWith({});
  hooks.register({ Stop: [{ hookCallbackIds: ['h1'] }] });
  const controller = new AbortController();
  const fired = hooks.fire('Stop', {}, { ...options, signal: controller.signal });
  controller.abort(new Error('enough'));
  await expect(fired).rejects.toThrow('enough');
});

test.each([3e6, 1e7, 1e300])('a timeout of %d s does not run out at once', async (timeout) => {
  const { hooks, failures } = hooksWith({ late: { decision: 'block', reason: 'no' } });
  hooks.register({ Stop: [{ matcher: '', hookCallbackIds: ['late'], timeout }] });
  const timers = vi.spyOn(AbortSignal, 'timeout');
  onTestFinished(() => timers.mockRestore());
  expect(await hooks.fire('Stop', {}, options)).toMatchObject({ decision: 'deny' });
  // The longest that a timer can take: with a longer one it runs out after a millisecond.
  expect(timers.mock.calls).toEqual([[2 ** 31 - 1]]);
  expect(failures).toEqual([]);
});

test.each([
  [{ hookSpecificOutput: { permissionDecision: 'denied' } }, 'it decided "denied"'],
  [{ decision: 'no' }, 'it decided "no"'],
  ['deny', 'it gave string'],
])('an answer that cannot be understood, %j, is a failure and not silence', async (answer, why) => {
  const { hooks, failures } = hooksWith({ h1: answer });
  hooks.register({ PreToolUse: [{ hookCallbackIds: ['h1'], onFailure: 'block' }] });
  const outcome = await hooks.fire('PreToolUse', {}, options);
  expect(outcome.unanswered).toContain(why);
  expect(failures).toHaveLength(1);
});

test.each([undefined, null, {}, { hookSpecificOutput: { permissionDecision: 'defer' } }])(
  'no opinion, %j, is none',
  async (answer) => {
    const { hooks, failures } = hooksWith({ h1: answer ?? null });
    hooks.register({ PreToolUse: [{ hookCallbackIds: ['h1'], onFailure: 'block' }] });
    expect(await hooks.fire('PreToolUse', {}, options)).toMatchObject({ reason: '', context: [] });
    expect(failures).toEqual([]);
  },
);
