import type { Part } from '../../event/types.ts';

/** A model message of the AI SDK. */
export type AiSdkMessage =
  | { readonly role: 'user'; readonly content: AiSdkContent[] }
  | { readonly role: 'assistant'; readonly content: string | AiSdkCallPart[] }
  | { readonly role: 'tool'; readonly content: AiSdkAnswerPart[] };

/** A content part of a user message. */
export type AiSdkContent =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'file'; readonly data: Uint8Array | URL; readonly mediaType: string };

/** A tool call of an assistant message, and the request for its approval. */
export type AiSdkCallPart =
  | {
      readonly type: 'tool-call';
      readonly toolCallId: string;
      readonly toolName: string;
      readonly input: unknown;
    }
  | {
      readonly type: 'tool-approval-request';
      readonly approvalId: string;
      readonly toolCallId: string;
    };

/** The decision about a call, in a tool message. */
export interface AiSdkAnswerPart {
  readonly type: 'tool-approval-response';
  readonly approvalId: string;
  readonly approved: boolean;
  readonly reason?: string;
}

/** A part of a turn as content of a user message. */
export function toAiSdkContent(part: Part): AiSdkContent {
  if ('text' in part) return { type: 'text', text: part.text };
  if ('data' in part) return { type: 'text', text: JSON.stringify(part.data) };
  const mediaType = part.mediaType ?? 'application/octet-stream';
  if ('bytes' in part) return { type: 'file', data: part.bytes, mediaType };
  return { type: 'file', data: new URL(part.url), mediaType };
}
