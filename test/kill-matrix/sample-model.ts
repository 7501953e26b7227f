import { createHash } from 'node:crypto';
import type { JsonObject } from '../../src/json.ts';
import type { ModelReply } from '../support/model-server.ts';
import type { MatrixScene } from './matrix-agent.ts';

/** The part of a reply of an offline model of the samples that the matrix uses. */
interface SampleReply {
  readonly text: string;
  readonly tools?: readonly { readonly name: string; readonly input: object }[];
}

/**
 * An offline model of a sample behind the scripted server. Calls get an id that is made of their
 * arguments, so that the same request gets the same reply.
 */
export const sampleReply =
  (model: (request: never) => SampleReply) =>
  (body: JsonObject): ModelReply => {
    const { text, tools = [] } = model({ messages: [], tools: [], ...body } as never);
    return {
      text,
      tools: tools.map(({ name, input }) => ({ id: idOf(input), name, input: { ...input } })),
    };
  };

const idOf = (input: object): string =>
  `toolu_${createHash('sha256').update(JSON.stringify(input)).digest('hex').slice(0, 20)}`;

/** Lets the agent CLI of a sample use the scripted model. Call it before the sample is loaded. */
export function useScriptedModel({ url }: MatrixScene): void {
  process.env['DUOLANE_MODEL'] = 'anthropic:scripted';
  process.env['ANTHROPIC_API_KEY'] = 'dummy';
  process.env['ANTHROPIC_BASE_URL'] = url;
}
