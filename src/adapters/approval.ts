import { createHash } from 'node:crypto';
import type { AgentContext, Turn } from '../event/types.ts';

/** A call that must not be made before a person allows it. */
export interface Pending {
  readonly callId: string;
  readonly name: string;
  readonly args: unknown;
}

export interface Verdict<Call extends Pending = Pending> {
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
): Promise<readonly Verdict<Call>[]> {
  return Promise.all(
    calls.map(async (call): Promise<Verdict<Call>> => {
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
 * The id of a question for frameworks whose run starts over after a wait: the model may name its
 * call anew then, but a person allowed this tool with these arguments, and nothing else.
 */
export const byContent =
  (turn: Turn) =>
  ({ name, args }: Pending): string => {
    const content = createHash('sha256')
      .update(JSON.stringify([name, args]))
      .digest('hex');
    return `${turn.messageId}/${name}-${content.slice(0, 16)}`;
  };
