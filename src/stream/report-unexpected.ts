/**
 * Handles the rejection of a promise that never rejects by design. A rejection is a defect of this
 * package: it becomes a warning of the process instead of an unhandled rejection, which would end
 * the process.
 */
export function reportUnexpected(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : new Error(String(error)));
}
