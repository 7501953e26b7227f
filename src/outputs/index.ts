export { agUiEncoder } from './ag-ui-encoder.ts';
export { readAgUiPost, readStreamJsonPost, readUiPost } from './parse-post.ts';
export { answersTo, type PostedAnswer, type PostedTurn } from './posted-turn.ts';
export { streamJsonEncoder } from './stream-json-encoder.ts';
export type { OutputMessage, OutputEncoder } from './types.ts';
export { uiMessageEncoder, type UiMessageOptions } from './ui-message-encoder.ts';
