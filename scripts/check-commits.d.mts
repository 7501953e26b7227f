/** A commit with the paths of the files that it changes. */
export interface Commit {
  readonly subject: string;
  readonly body: string;
  readonly files: readonly string[];
}
/** What is wrong with a commit, one sentence per problem. */
export declare function problemsOf(commit: Commit): string[];
