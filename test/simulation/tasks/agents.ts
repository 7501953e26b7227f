import { StepError } from '../../../src/event/step-error.ts';
import type { Agent, AgentContext, AgentEvent, Turn } from '../../../src/event/types.ts';
import { AGENT_TIMER } from './replica.ts';
import type { Action, AgentPlan } from './plan.ts';
import type { Ledger } from './ledger.ts';

const say = (id: string, delta: string): AgentEvent => ({ type: 'text.delta', id, delta });

/** An agent that follows its plan, and enters what it does and gets into the ledger. */
export function scriptedAgent(plan: AgentPlan, ledger: Ledger): Agent {
  const agent: Agent = async function* (turn, ctx) {
    const call = ledger.enter(turn, ctx);
    try {
      for (const [index, action] of plan.actions.entries())
        for await (const event of act(action, index, turn, ctx, ledger)) {
          if (event.type === 'text.delta') call.text += event.delta;
          yield event;
        }
      call.finished = true;
    } finally {
      ledger.leave(call);
    }
  };
  return Object.assign(agent, plan.resumable === undefined ? {} : { resumable: plan.resumable });
}

async function* act(
  action: Action,
  index: number,
  turn: Turn,
  ctx: AgentContext,
  ledger: Ledger,
): AsyncGenerator<AgentEvent> {
  const block = `b${index}`;
  switch (action.do) {
    case 'say':
      for (let word = 0; word < action.words; word++) yield say(block, `w${index}.${word} `);
      return;
    case 'pause':
      await pause(action.ms, action.deaf ? undefined : ctx.signal);
      return;
    case 'call': {
      const call = { callId: `${turn.messageId}/c${index}`, name: 'tool' };
      yield { type: 'tool.called', ...call, args: { index } };
      await pause(action.ms, ctx.signal);
      yield { type: 'tool.completed', ...call, output: index };
      return;
    }
    case 'step':
      yield say(block, await step(`s${index}`, action, turn, ctx, ledger));
      return;
    case 'steps': {
      const ids = Array.from({ length: action.count }, (_, each) => `s${index}.${each}`);
      const once = { ms: action.ms, failures: 0, attempts: 1 };
      const all = await Promise.all(ids.map((id) => step(id, once, turn, ctx, ledger)));
      yield say(block, all.join(''));
      return;
    }
    case 'ask':
    case 'both': {
      const id = `${turn.messageId}/q${index}`;
      ledger.asks(turn.task, id, ctx.signal);
      const question = ctx.ask({ id, kind: 'question' });
      const sleep = action.do === 'both' ? ctx.sleep(`z${index}`, action.ms) : undefined;
      const answer = question.then(({ content: given }) => {
        ledger.answered(turn.task, id, given);
        return given;
      });
      const [content] = await Promise.all([answer, sleep]);
      yield say(block, `${String(content)} `);
      return;
    }
    case 'sleep':
      await ctx.sleep(`z${index}`, action.ms);
      ledger.slept(turn, `z${index}`);
      return;
    case 'wait':
      yield say(block, await event(`e${index}`, action.timeoutMs, turn, ctx, ledger));
      return;
    case 'store': {
      await ctx.storage?.set({ [`k${index}`]: turn.messageId });
      const found: string[] = [];
      for await (const [key, value] of ctx.storage?.list('k') ?? [])
        found.push(`${key}=${String(value)}`);
      ledger.stored(turn, `k${index}=${turn.messageId}`, found);
      return;
    }
    case 'history':
      for await (const earlier of ctx.history()) ledger.earlier(turn, earlier.task);
      return;
    default:
      throw new Error('as planned');
  }
}

async function step(
  id: string,
  { ms, failures, attempts }: { ms: number; failures: number; attempts: number },
  turn: Turn,
  ctx: AgentContext,
  ledger: Ledger,
): Promise<string> {
  try {
    const output = await ctx.step(
      id,
      async ({ key, attempt, signal }) => {
        const value = ledger.stepBegins(turn, id, key, attempt, ctx);
        await pause(ms, signal);
        if (attempt <= failures) throw new Error('as planned');
        return value;
      },
      { retry: { attempts, backoff: { firstMs: 200 } } },
    );
    ledger.stepEnds(turn, id, output);
    return `${output} `;
  } catch (error) {
    if (!(error instanceof StepError)) throw error;
    ledger.stepEnds(turn, id, undefined);
    return `${id} failed `;
  }
}

async function event(
  id: string,
  timeoutMs: number | undefined,
  turn: Turn,
  ctx: AgentContext,
  ledger: Ledger,
): Promise<string> {
  try {
    const content = await ctx.waitFor(id, timeoutMs === undefined ? {} : { timeoutMs });
    ledger.answered(turn.task, id, content);
    ledger.stepEnds(turn, id, content);
    return `${String(content)} `;
  } catch (error) {
    if (!(error instanceof StepError)) throw error;
    ledger.stepEnds(turn, id, undefined);
    return `${id} late `;
  }
}

/** Waits as code of a user does. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    // A machine may be disposed while an agent that does not listen still has its timer.
    Object.assign(timer, { where: AGENT_TIMER });
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}
