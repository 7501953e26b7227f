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

/** What the user said last, in words. */
export function lastUserText({ messages }: ModelRequest): string {
  const last = messages.findLast(({ role, content }) => role === 'user' && isSaid(content));
  return last ? wordsOf(last.content) : '';
}

/** The results of the calls that the model has just made; empty while the user has the last word. */
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

/** Whether somebody says something, perhaps beside results that a turn which was cut off had left. */
const isSaid = (content: Message['content']): boolean =>
  typeof content === 'string' || content.some((block) => block.type === 'text' && !isNote(block));

/** What the CLI writes where a turn was interrupted: nobody said it. */
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
