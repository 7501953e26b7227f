import { asNumber, asObject, asObjects, asString, type JsonObject } from '../../json.ts';

/** A piece of a model message that the SDK passes on only in the form of the provider. */
export type ProviderPart =
  | { readonly type: 'reasoning'; readonly delta: string }
  | {
      readonly type: 'call';
      readonly key: string;
      readonly callId: string;
      readonly name: string;
    }
  | { readonly type: 'args'; readonly key: string; readonly delta: string };

/** The type of an event that has the parts of several events of the provider. */
export const STORED_PARTS = 'duolane.stored_parts';

/** Chat completions have `choices`; events of the Responses API have a `type`. */
export function providerParts(event: JsonObject): readonly ProviderPart[] {
  switch (event['type']) {
    case STORED_PARTS:
      return event['parts'] as readonly ProviderPart[];
    case 'response.reasoning_summary_text.delta':
    case 'response.reasoning_text.delta':
      return nonEmpty({ type: 'reasoning', delta: asString(event['delta']) });
    case 'response.output_item.added': {
      const item = asObject(event['item']);
      if (item['type'] !== 'function_call') return [];
      const [key, callId] = [asString(item['id']), asString(item['call_id'])];
      return [{ type: 'call', key, callId, name: asString(item['name']) }];
    }
    case 'response.function_call_arguments.delta': {
      const key = asString(event['item_id']);
      return nonEmpty({ type: 'args', key, delta: asString(event['delta']) });
    }
    default:
      return chunkParts(asObject(asObject(asObjects(event['choices'])[0])['delta']));
  }
}

function chunkParts(delta: JsonObject): readonly ProviderPart[] {
  const reasoning = asString(delta['reasoning_content']) || asString(delta['reasoning']);
  const calls = asObjects(delta['tool_calls']).flatMap((call): readonly ProviderPart[] => {
    const key = String(asNumber(call['index']) ?? 0);
    const { name, arguments: args } = asObject(call['function']);
    const callId = asString(call['id']);
    const started: ProviderPart = { type: 'call', key, callId, name: asString(name) };
    const more = nonEmpty({ type: 'args', key, delta: asString(args) });
    return callId === '' ? more : [started, ...more];
  });
  return [...nonEmpty({ type: 'reasoning', delta: reasoning }), ...calls];
}

const nonEmpty = (
  part: Exclude<ProviderPart, { readonly type: 'call' }>,
): readonly ProviderPart[] => (part.delta === '' ? [] : [part]);

/** Joins parts that follow each other and belong to one block. */
export function mergeParts(parts: readonly ProviderPart[]): readonly ProviderPart[] {
  const merged: ProviderPart[] = [];
  for (const part of parts) {
    const last = merged.at(-1);
    if (part.type === 'reasoning' && last?.type === 'reasoning')
      merged[merged.length - 1] = { ...last, delta: last.delta + part.delta };
    else if (part.type === 'args' && last?.type === 'args' && last.key === part.key)
      merged[merged.length - 1] = { ...last, delta: last.delta + part.delta };
    else merged.push(part);
  }
  return merged;
}
