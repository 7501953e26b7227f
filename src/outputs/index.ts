export { agUiEncoder } from './ag-ui.ts';
export { readAgUiPost, readStreamJsonPost, readUiPost } from './input.ts';
export { answersTo, type Given, type Posted } from './posted.ts';
export { streamJsonEncoder } from './stream-json.ts';
export type { Message, Output } from './types.ts';
export { uiMessageEncoder, type UiMessageOptions } from './ui-message.ts';
