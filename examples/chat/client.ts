import { SseDecoder } from 'duolane/wire';

interface Part {
  type: string;
  text?: string;
  toolCallId?: string;
  state?: string;
  output?: unknown;
  approval?: { id: string; approved?: boolean };
}

interface Message {
  id: string;
  role: 'user' | 'assistant';
  parts: Part[];
}

type Chunk = { readonly type: string } & Readonly<Record<string, string>>;

/** A small `useChat`: it posts messages, reads the stream, and resumes after a reload. */
export class Chat {
  readonly messages: Message[] = [];
  readonly id: string = crypto.randomUUID();
  readonly #api: string;

  constructor(api: string) {
    this.#api = api;
  }

  async send(text: string): Promise<void> {
    const id = crypto.randomUUID();
    this.messages.push({ id, role: 'user', parts: [{ type: 'text', text }] });
    await this.#post();
  }

  /** The approval requests of the last message that have no decision. */
  get approvals(): readonly string[] {
    const parts = this.messages.at(-1)?.parts ?? [];
    return parts.flatMap((part) =>
      part.state === 'approval-requested' && part.approval ? [part.approval.id] : [],
    );
  }

  async decide(id: string, approved: boolean): Promise<void> {
    for (const part of this.messages.at(-1)?.parts ?? [])
      if (part.approval?.id === id) {
        part.state = 'approval-responded';
        part.approval.approved = approved;
      }
    await this.#post();
  }

  /** Reads the last message again from its start; false if no run is active or waiting. */
  async resume(): Promise<boolean> {
    const response = await fetch(`${this.#api}/${this.id}/stream`);
    if (response.status === 204) return false;
    if (this.messages.at(-1)?.role === 'assistant') this.messages.pop();
    await this.#read(response);
    return true;
  }

  get text(): string {
    return (this.messages.at(-1)?.parts ?? []).map(({ text = '' }) => text).join('');
  }

  async #post(): Promise<void> {
    const { id, messages } = this;
    const response = await fetch(this.#api, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ id, messages, trigger: 'submit-message' }),
    });
    if (!response.ok) throw new Error(await response.text());
    await this.#read(response);
  }

  async #read(response: Response): Promise<void> {
    const decoder = new SseDecoder();
    for await (const bytes of response.body ?? [])
      for (const event of decoder.decode(bytes))
        if ('data' in event && event.data !== '[DONE]') this.#take(JSON.parse(event.data) as Chunk);
  }

  #take(chunk: Chunk): void {
    const { type, messageId = '', toolCallId, delta = '' } = chunk;
    if (type === 'start' && this.messages.at(-1)?.id !== messageId)
      this.messages.push({ id: messageId, role: 'assistant', parts: [] });
    const parts = this.messages.at(-1)?.parts ?? [];
    const tool = parts.find((part) => part.toolCallId === toolCallId);
    if (type === 'text-start') parts.push({ type: 'text', text: '' });
    else if (type === 'text-delta') (parts.at(-1) as Part).text += delta;
    else if (type === 'tool-input-available')
      parts.push({ type: `tool-${chunk['toolName']}`, toolCallId: toolCallId ?? '' });
    else if (type === 'tool-approval-request' && tool)
      Object.assign(tool, { state: 'approval-requested', approval: { id: chunk['approvalId'] } });
    else if (type === 'tool-output-available' && tool)
      Object.assign(tool, { state: 'output-available', output: chunk['output'] });
    else if (type === 'tool-output-denied' && tool) tool.state = 'output-denied';
    else if (type === 'error') throw new Error(chunk['errorText']);
  }
}
