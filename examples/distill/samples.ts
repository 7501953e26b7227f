/** Transcripts to distil: the speaker or the called tool, then the text. */
export const SAMPLES: readonly [string, ...string[]] = [
  `User: Where is my order 1042?
Tool: find_order(1042)
Assistant: Order 1042 left the warehouse on Monday and arrives on Thursday.
User: Please cancel order 1050.
Tool: find_order(1050)
Tool: cancel_order(1050)
Assistant: Order 1050 is cancelled; nothing was charged.`,
  `User: Translate to French: good morning
Assistant: bonjour
User: Translate to French: thank you
Assistant: merci`,
];
