/** A conversation as a `module:` model gets it, as far as the offline models read it. */
export interface Message {
  readonly role: 'user' | 'assistant';
  readonly content: string | readonly Block[];
}

interface Block {
  readonly type: string;
  readonly text?: unknown;
  readonly content?: unknown;
  readonly is_error?: unknown;
}

export interface ModelRequest {
  readonly messages: readonly Message[];
  readonly tools: readonly { readonly name: string }[];
}

export interface ModelAnswer {
  readonly text: string;
  readonly tools?: readonly {
    readonly name: string;
    readonly input: Readonly<Record<string, unknown>>;
    readonly id?: string;
  }[];
}

/** The text of the last user message. */
export function lastUserText({ messages }: ModelRequest): string {
  const last = messages.findLast(({ role, content }) => role === 'user' && isSaid(content));
  return last ? wordsOf(last.content) : '';
}

/**
 * The results of the calls that the model has just made; empty while the user has the last word.
 */
export function toolResults({ messages }: ModelRequest): readonly ToolAnswer[] {
  const { content } = messages.at(-1) ?? {};
  if (content === undefined || typeof content === 'string' || isSaid(content)) return [];
  return content
    .filter(({ type }) => type === 'tool_result')
    .map((block) => ({ text: wordsOf(block.content), isError: block.is_error === true }));
}

export interface ToolAnswer {
  readonly text: string;
  readonly isError: boolean;
}

/** Whether the content has text of the user, perhaps next to results of an interrupted turn. */
const isSaid = (content: Message['content']): boolean =>
  typeof content === 'string' || content.some((block) => block.type === 'text' && !isNote(block));

/**
 * Whether a block is the note that the CLI writes after an interrupt; it is not text of the user.
 */
const isNote = ({ text }: Block): boolean =>
  typeof text === 'string' && /^\[Request interrupted by user[\w ]*\]$/.test(text);

/** The text in a message's content, whichever way it is written. */
function wordsOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return (content as readonly Block[])
    .filter((block) => !isNote(block))
    .flatMap(({ text }) => (typeof text === 'string' ? [text] : []))
    .join('\n');
}
