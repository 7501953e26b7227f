import { createHash } from 'node:crypto';
import { approvedArgs } from '../../ask.ts';
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
  /** The text that the person gave when declining, or why the approval does not count. */
  readonly reason?: string;
  /** The arguments that the person approved, if the caller can use changed ones. */
  readonly args?: unknown;
}

/** How an adapter uses approvals. */
export interface ApproveOptions<Call extends Pending = Pending> {
  readonly idOf?: (call: Call) => string;
  /** Whether the call can be made with other arguments. If not, a changed approval declines it. */
  readonly edits?: boolean;
}

/**
 * Asks a person about each call and waits for all answers. If the run is suspended meanwhile, it
 * throws `suspended`, which the caller must not catch. The id of the question contains that of its
 * call, so that a run which finds the call in the log finds the answer too. Calls with one id are
 * asked about one by one (`…-2`). A call never runs with arguments that the person has changed.
 */
export async function approve<Call extends Pending>(
  calls: readonly Call[],
  { ask, signal }: Pick<AgentContext, 'ask' | 'signal'>,
  { idOf = ({ callId }) => `${callId}/approval`, edits = false }: ApproveOptions<Call> = {},
): Promise<readonly ApprovalVerdict<Call>[]> {
  const numbered = numberedIds();
  return Promise.all(
    calls.map(async (call): Promise<ApprovalVerdict<Call>> => {
      const { callId, name, args } = call;
      const data = { name, args };
      const { action, content } = await ask(
        { id: numbered(idOf(call)), kind: 'approval', message: `Allow ${name}?`, callId, data },
        { signal },
      );
      if (action !== 'accept')
        return {
          of: call,
          approved: false,
          ...(typeof content === 'string' && { reason: content }),
        };
      const given = approvedArgs(content, data, 'args');
      if (given && (edits || !given.changed)) return { of: call, approved: true, args: given.args };
      const reason = given
        ? `The person approved other arguments, so the call did not run. Call ${name} again with ${JSON.stringify(given.args)}`
        : 'The person changed the call in an invalid way, so it did not run.';
      return { of: call, approved: false, reason };
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
