import type { AgentEvent, Part } from '../../event/types.ts';
import { type JsonObject, omitUndefined } from '../../json.ts';
import { DuolaneError } from '../../errors.ts';
import type { ToolEvent, ToolResult } from '../../mcp/types.ts';

/** The most bytes and characters of a result: a model reads all of it. */
const MAX_RESULT = 4 << 20;

/**
 * Collects the events of a remote run into the result of a tool call. It is a pure state machine;
 * `receive` returns what the caller sees meanwhile.
 */
export class CallResult {
  #text = '';
  #size = 0;
  #partials = 0;
  #isRejected = false;
  readonly #artifacts = new Map<string, Part[]>();

  receive(event: AgentEvent): ToolEvent | undefined {
    switch (event.type) {
      case 'text.delta':
        this.#grow(event.delta.length);
        this.#text += event.delta;
        return {
          type: 'partial',
          index: this.#partials++,
          content: { type: 'text', text: event.delta },
        };
      case 'retry':
        if (event.discard) this.#text = '';
        return undefined;
      case 'artifact': {
        const { artifactId, parts, append } = event;
        for (const part of parts) this.#grow(sizeOf(part));
        const known = append ? this.#artifacts.get(artifactId) : undefined;
        if (known) for (const part of parts) addPart(known, part);
        else this.#artifacts.set(artifactId, [...parts]);
        return undefined;
      }
      case 'status':
        return event.message === undefined
          ? undefined
          : { type: 'progress', progress: this.#partials, message: event.message };
      case 'run.finished':
        this.#isRejected = event.outcome !== 'completed';
        if (this.#text === '') this.#text = event.text;
        return undefined;
      default:
        return undefined;
    }
  }

  get result(): ToolResult {
    const parts = [...this.#artifacts.values()].flat();
    const content = parts.map(contentOf);
    const data = parts.flatMap((part) => ('data' in part ? [part.data] : []));
    const text = this.#isRejected
      ? `Error: ${this.#text || 'the agent refused the task'}`
      : this.#text;
    return {
      content: text === '' && content.length > 0 ? content : [{ type: 'text', text }, ...content],
      ...(data.length === 1 && { structuredContent: data[0] }),
      ...(this.#isRejected && { isError: true }),
    };
  }

  #grow(size: number): void {
    this.#size += size;
    if (this.#size > MAX_RESULT)
      throw new DuolaneError(
        'invalid',
        `the result of the remote agent exceeds ${MAX_RESULT} bytes; call it as an agent (\`remote\`), or let it return a link`,
      );
  }
}

/** Adds a chunk of an artifact. Text continues the text before it: a model reads one text. */
function addPart(parts: Part[], part: Part): void {
  const last = parts.at(-1);
  if (last && 'text' in last && 'text' in part)
    parts[parts.length - 1] = { ...last, text: last.text + part.text };
  else parts.push(part);
}

const sizeOf = (part: Part): number => {
  if ('text' in part) return part.text.length;
  if ('bytes' in part) return part.bytes.length;
  return 'url' in part ? part.url.length : JSON.stringify(part.data).length;
};

/** A part in the form of MCP. */
function contentOf(part: Part): JsonObject {
  if ('text' in part) return { type: 'text', text: part.text };
  if ('bytes' in part) {
    const data = Buffer.from(part.bytes).toString('base64');
    const { mediaType: mimeType, filename = 'file' } = part;
    if (mimeType.startsWith('image/')) return { type: 'image', data, mimeType };
    if (mimeType.startsWith('audio/')) return { type: 'audio', data, mimeType };
    const uri = `attachment:${encodeURIComponent(filename)}`;
    return { type: 'resource', resource: { uri, mimeType, blob: data } };
  }
  if ('url' in part) {
    const { url: uri, filename: name = uri, mediaType: mimeType } = part;
    return { type: 'resource_link', uri, name, ...omitUndefined({ mimeType }) };
  }
  return { type: 'text', text: JSON.stringify(part.data) };
}
