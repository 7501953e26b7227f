import { invalid, unsupported } from '../../errors.ts';
import { asObject, asString, isObject, type JsonObject } from '../../json.ts';

/** The blocks of a prompt in the form of the Messages API. Throws for what is not supported. */
export function promptContent(prompt: unknown): readonly JsonObject[] {
  if (!Array.isArray(prompt) || prompt.length === 0)
    throw invalid('invalid prompt: expected a list of content blocks that is not empty');
  return prompt.map((block: unknown) => {
    if (!isObject(block)) throw invalid('invalid block in prompt: expected an object');
    return promptBlockOf(block);
  });
}

function promptBlockOf(block: JsonObject): JsonObject {
  switch (block['type']) {
    case 'text':
      return textBlock(asString(block['text']));
    case 'image': {
      const { data, mimeType } = block;
      if (typeof data !== 'string' || typeof mimeType !== 'string')
        throw invalid('invalid image in prompt: expected data and mimeType');
      return { type: 'image', source: { type: 'base64', media_type: mimeType, data } };
    }
    case 'resource_link':
      return textBlock(`[${asString(block['name'])}](${asString(block['uri'])})`);
    case 'resource': {
      const { uri, text } = asObject(block['resource']);
      if (typeof text !== 'string')
        throw unsupported('a resource with a blob is not supported in a prompt; send its text');
      return textBlock(`<context ref="${asString(uri)}">\n${text}\n</context>`);
    }
    default:
      throw unsupported(
        `content of type "${asString(block['type'])}" is not supported in a prompt; send text, an image or a resource`,
      );
  }
}

const textBlock = (text: string): JsonObject => ({ type: 'text', text });
