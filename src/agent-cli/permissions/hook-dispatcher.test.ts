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

test('the strictest decision wins, the last change wins, all context is kept', () => {
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

test('only callbacks whose matcher fits are called, with the common input fields', async () => {
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

test.each([
  ['Bash', ['Bash']],
  ['Bash|Write', ['Bash', 'Write']],
  ['Bash, Write', ['Bash', 'Write']],
  ['mcp__bank', []],
  ['^mcp__', ['mcp__bank__pay', 'mcp__files__delete_all']],
  ['__(pay|delete)', ['mcp__bank__pay', 'mcp__files__delete_all']],
  ['mcp__.*__pay$', ['mcp__bank__pay']],
  ['mcp__bank__.*', ['mcp__bank__pay']],
])('the matcher %j means the same tools as with the official CLI', async (matcher, expected) => {
  const { hooks, asked } = hooksWith({ h: {} });
  hooks.register({ PreToolUse: [{ matcher, hookCallbackIds: ['h'] }] });
  const subjects = ['Bash', 'Write', 'mcp__bank__pay', 'mcp__files__delete_all'];
  for (const subject of subjects)
    await hooks.fire('PreToolUse', { tool_name: subject }, { ...options, subject });
  const called = asked.map(({ request }) => (request as { input: JsonObject }).input['tool_name']);
  expect(called).toEqual(expected);
});

test('a matcher that is not a regular expression is refused: its hook would never be called', () => {
  const { hooks } = hooksWith({});
  const given = { PreToolUse: [{ matcher: '*Bash', hookCallbackIds: ['h'] }] };
  expect(hooks.refusal(given)).toContain('invalid matcher "*Bash" of a PreToolUse hook');
});

test('a callback that fails is ignored, unless it was registered to block on failure', async () => {
  const { hooks, failures } = hooksWith({ h1: new Error('exploded') });
  hooks.register({ PreToolUse: [{ hookCallbackIds: ['h1'] }] });
  expect(await hooks.fire('PreToolUse', {}, options)).toEqual({ reason: '', context: [] });
  expect(failures[0]).toContain('exploded');
  hooks.register({ PreToolUse: [{ hookCallbackIds: ['h1'], onFailure: 'block' }] });
  expect((await hooks.fire('PreToolUse', {}, options)).unanswered).toContain('exploded');
});

test('a callback that times out is cancelled', async () => {
  const { hooks, asked } = hooksWith({});
  hooks.register({ PreToolUse: [{ hookCallbackIds: ['h1'], timeout: 0.02 }] });
  expect((await hooks.fire('PreToolUse', {}, options)).unanswered).toContain(
    'timed out after 20 ms: no response of the host',
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

test.each([3e6, 1e7, 1e300])('a timeout of %d s does not fire immediately', async (timeout) => {
  const { hooks, failures } = hooksWith({ late: { decision: 'block', reason: 'no' } });
  hooks.register({ Stop: [{ matcher: '', hookCallbackIds: ['late'], timeout }] });
  const timers = vi.spyOn(AbortSignal, 'timeout');
  onTestFinished(() => timers.mockRestore());
  expect(await hooks.fire('Stop', {}, options)).toMatchObject({ decision: 'deny' });
  // The longest time of a timer: with a longer one it fires after a millisecond.
  expect(timers.mock.calls).toEqual([[2 ** 31 - 1]]);
  expect(failures).toEqual([]);
});

test.each([
  [
    { hookSpecificOutput: { permissionDecision: 'denied' } },
    'the hook returned the decision "denied"',
  ],
  [{ decision: 'no' }, 'the hook returned the decision "no"'],
  ['deny', 'the hook returned string'],
])('an invalid result, %j, counts as a failure', async (answer, why) => {
  const { hooks, failures } = hooksWith({ h1: answer });
  hooks.register({ PreToolUse: [{ hookCallbackIds: ['h1'], onFailure: 'block' }] });
  const outcome = await hooks.fire('PreToolUse', {}, options);
  expect(outcome.unanswered).toContain(why);
  expect(failures).toHaveLength(1);
});

test.each([undefined, null, {}, { hookSpecificOutput: { permissionDecision: 'defer' } }])(
  'a result without a decision, %j, decides nothing',
  async (answer) => {
    const { hooks, failures } = hooksWith({ h1: answer ?? null });
    hooks.register({ PreToolUse: [{ hookCallbackIds: ['h1'], onFailure: 'block' }] });
    expect(await hooks.fire('PreToolUse', {}, options)).toMatchObject({ reason: '', context: [] });
    expect(failures).toEqual([]);
  },
);
