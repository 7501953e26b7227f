import { createHash } from 'node:crypto';
import type { AgentContext, Turn } from '../../event/types.ts';

/** A call that needs the approval of a person. */
export interface Pending {
  readonly callId: string;
  readonly name: string;
  readonly args: unknown;
}

/** The decision of a person about a call. */
export interface ApprovalVerdict<Call extends Pending = Pending> {
  readonly of: Call;
  readonly approved: boolean;
  /** The text that the person gave when declining. */
  readonly reason?: string;
}

/**
 * Asks a person about each call and waits for all answers. If the run is suspended meanwhile, it
 * throws `suspended`, which the caller must not catch. The id of the question contains that of its
 * call, so that a run which finds the call in the log finds the answer too. Calls with one id are
 * asked about one by one (`…-2`).
 */
export async function approve<Call extends Pending>(
  calls: readonly Call[],
  { ask, signal }: Pick<AgentContext, 'ask' | 'signal'>,
  idOf: (call: Call) => string = ({ callId }) => `${callId}/approval`,
): Promise<readonly ApprovalVerdict<Call>[]> {
  const numbered = numberedIds();
  return Promise.all(
    calls.map(async (call): Promise<ApprovalVerdict<Call>> => {
      const { callId, name, args } = call;
      const { action, content } = await ask(
        {
          id: numbered(idOf(call)),
          kind: 'approval',
          message: `Allow ${name}?`,
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
 * Creates question ids from the content of a call, for frameworks whose run starts over after a
 * question: the model may then give its call another id, but the person allowed this tool with
 * these arguments. Create one per run: a further equal call of the run gets another id (`…-2`), so
 * that each approval allows one call.
 */
export function questionIdByContent(turn: Turn): (call: Pending) => string {
  const numbered = numberedIds();
  return ({ name, args }) => {
    const content = createHash('sha256')
      .update(JSON.stringify([name, args]))
      .digest('hex');
    return numbered(`${turn.messageId}/${name}-${content.slice(0, 16)}`);
  };
}

/** Adds a number to an id that was used before. */
function numberedIds(): (id: string) => string {
  const used = new Map<string, number>();
  return (id) => {
    const count = (used.get(id) ?? 0) + 1;
    used.set(id, count);
    return count === 1 ? id : `${id}-${count}`;
  };
}
