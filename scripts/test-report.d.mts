/** The part of vitest's JSON report that we read. */
export interface TestReport {
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message: string;
    readonly assertionResults: readonly {
      readonly status: string;
      readonly title: string;
      readonly fullName: string;
      readonly ancestorTitles: readonly string[];
      readonly meta?: { readonly skipped?: string };
    }[];
  }[];
}
export interface Summary {
  readonly passed: number;
  readonly failed: readonly string[];
  readonly skipped: readonly { readonly test: string; readonly reason: string }[];
}
export declare function summarize(
  report: TestReport | undefined,
  exitCode: number,
  root: string,
): Summary;
export declare function splitTitle(
  title: string,
): readonly [title: string, reason: string | undefined];
export declare function describeSkips(skipped: Summary['skipped']): string[];
export declare function finalLine(summary: Summary): string;
