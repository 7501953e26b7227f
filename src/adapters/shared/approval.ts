import { createHash } from 'node:crypto';
import type { AgentContext, Turn } from '../../event/types.ts';

/** A call that must not be made before a person allows it. */
export interface Pending {
  readonly callId: string;
  readonly name: string;
  readonly args: unknown;
}

export interface ApprovalVerdict<Call extends Pending = Pending> {
  readonly of: Call;
  readonly approved: boolean;
  /** What the person said when they declined. */
  readonly reason?: string;
}

/**
 * Asks a person about each call and waits for all answers. Put to sleep meanwhile, it throws
 * `suspended`: let that pass. The question is named after its call, so that a run which finds the
 * call in the log finds the answer too.
 */
export async function approve<Call extends Pending>(
  calls: readonly Call[],
  { ask, signal }: Pick<AgentContext, 'ask' | 'signal'>,
  idOf: (call: Call) => string = ({ callId }) => `${callId}/approval`,
): Promise<readonly ApprovalVerdict<Call>[]> {
  return Promise.all(
    calls.map(async (call): Promise<ApprovalVerdict<Call>> => {
      const { callId, name, args } = call;
      const { action, content } = await ask(
        {
          id: idOf(call),
          kind: 'approval',
          message: `May ${name} be called?`,
          callId,
          data: { name, args },
        },
        { signal },
      );
      const reason = action !== 'accept' && typeof content === 'string' ? content : undefined;
      return { of: call, approved: action === 'accept', ...(reason !== undefined && { reason }) };
    }),
  );
}

/**
 * Ids of questions for frameworks whose run starts over after a wait: the model may name its call
 * anew then, but a person allowed this tool with these arguments. Make one for each run: a further
 * equal call of the run gets an id of its own (`…-2`), so that each approval allows one call.
 */
export function questionIdByContent(turn: Turn): (call: Pending) => string {
  const asked = new Map<string, number>();
  return ({ name, args }) => {
    const content = createHash('sha256')
      .update(JSON.stringify([name, args]))
      .digest('hex');
    const id = `${turn.messageId}/${name}-${content.slice(0, 16)}`;
    const count = (asked.get(id) ?? 0) + 1;
    asked.set(id, count);
    return count === 1 ? id : `${id}-${count}`;
  };
}
