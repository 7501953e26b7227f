/** Why a briefing failed. The list is closed, so that a caller may switch over it. */
export type BriefingErrorCode =
  | 'INVALID_RECORD' // the record of the caller
  | 'CLI_CONNECTION_ERROR' // the agent CLI exited before its result
  | 'AGENT_ERROR' // the run ended with an error result, such as too many turns
  | 'NO_STRUCTURED_OUTPUT' // the run succeeded, but without a briefing
  | 'INVALID_OUTPUT' // the briefing is not valid for the schema
  | 'UNRESOLVED_CITATION'; // the briefing cites a source that no search returned

export class BriefingGenerationError extends Error {
  override readonly name = 'BriefingGenerationError';
  readonly code: BriefingErrorCode;

  constructor(code: BriefingErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
