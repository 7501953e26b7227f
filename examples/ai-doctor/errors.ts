/** Why there is no briefing. Closed: a caller may switch over it. */
export type BriefingErrorCode =
  | 'INVALID_RECORD' // what was sent in
  | 'CLI_CONNECTION_ERROR' // the agent CLI went away before it had a result
  | 'AGENT_ERROR' // the run ended with an error result, such as too many turns
  | 'NO_STRUCTURED_OUTPUT' // the run ended well, but without a briefing
  | 'INVALID_OUTPUT' // there is one, in the wrong form
  | 'UNRESOLVED_CITATION'; // it cites what no search returned

export class BriefingGenerationError extends Error {
  override readonly name = 'BriefingGenerationError';
  readonly code: BriefingErrorCode;

  constructor(code: BriefingErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
