// `useChat` without React: the AI SDK's own chat and transport over a state of plain fields.
import type { Peer } from '../peers.ts';

export interface UiPart {
  readonly type: string;
  readonly state?: string;
  readonly text?: string;
  readonly toolCallId?: string;
  readonly input?: unknown;
  readonly output?: unknown;
  readonly errorText?: string;
  readonly data?: unknown;
  readonly url?: string;
  readonly approval?: { readonly id: string; readonly approved?: boolean };
}

export interface UiMessage {
  readonly id: string;
  readonly role: string;
  readonly metadata?: unknown;
  readonly parts: readonly UiPart[];
}

export interface Chat {
  readonly id: string;
  readonly status: string;
  readonly error: Error | undefined;
  messages: UiMessage[];
  sendMessage(message?: { readonly text: string }): Promise<void>;
  regenerate(): Promise<void>;
  resumeStream(): Promise<void>;
  stop(): Promise<void>;
  addToolApprovalResponse(response: { id: string; approved: boolean }): Promise<void>;
  addToolOutput(output: { tool: string; toolCallId: string; output: unknown }): Promise<void>;
}

interface Sdk {
  readonly AbstractChat: new (init: object) => Chat;
  readonly DefaultChatTransport: new (options: object) => object;
  /** From 6 on. */
  readonly lastAssistantMessageIsCompleteWithApprovalResponses?: (messages: object) => boolean;
  readonly lastAssistantMessageIsCompleteWithToolCalls: (messages: object) => boolean;
}

export interface ChatOptions {
  readonly id?: string;
  readonly messages?: UiMessage[];
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: object;
  readonly onData?: (part: UiPart) => void;
  /** What the front end does by itself when a call is its own. */
  readonly onToolCall?: (call: { toolCall: { toolCallId: string; toolName: string } }) => void;
  /** The package to take it from. */
  readonly sdk?: string;
}

/** A chat as `useChat` makes it, which sends approvals and tool outputs by itself. */
export async function openChat(
  peer: Peer,
  api: string,
  { sdk: name = 'ai', id, messages = [], headers = {}, body = {}, ...hooks }: ChatOptions = {},
): Promise<Chat> {
  const sdk = (await peer.import(name)) as unknown as Sdk;
  const state = {
    status: 'ready',
    error: undefined as Error | undefined,
    messages,
    pushMessage: (message: UiMessage) => void (state.messages = [...state.messages, message]),
    popMessage: () => void (state.messages = state.messages.slice(0, -1)),
    replaceMessage: (index: number, message: UiMessage) =>
      void (state.messages = state.messages.with(index, message)),
    snapshot: <T>(value: T): T => structuredClone(value),
  };
  return new sdk.AbstractChat({
    ...(id !== undefined && { id }),
    ...hooks,
    state,
    transport: new sdk.DefaultChatTransport({ api, headers, body }),
    sendAutomaticallyWhen: (chat: object) =>
      sdk.lastAssistantMessageIsCompleteWithApprovalResponses?.(chat) ||
      sdk.lastAssistantMessageIsCompleteWithToolCalls(chat),
  });
}
