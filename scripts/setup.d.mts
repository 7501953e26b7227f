export interface RunResult {
  readonly code: number;
  readonly output: string;
}
export interface RunOptions {
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly quiet?: boolean;
}
export interface InstallFailure {
  readonly unreachable: boolean;
  readonly reason: string;
}
export declare const ROOT: string;
export declare function say(text: string): void;
export declare function endChildrenOnSignal(): () => void;
export declare function run(
  command: string,
  args: readonly string[],
  options?: RunOptions,
): Promise<RunResult>;
export declare function runTool(
  name: string,
  args: readonly string[],
  options?: RunOptions,
): Promise<RunResult>;
export declare function runNpm(args: readonly string[], options?: RunOptions): Promise<RunResult>;
export declare function isInstalled(directory: string): boolean;
export declare function explainInstall(result: RunResult): InstallFailure;
export declare function install(
  directory: string,
  onStart?: () => void,
): Promise<InstallFailure | undefined>;
export declare function withLock<T>(
  path: string,
  work: () => Promise<T>,
  options?: { staleMs?: number },
): Promise<T>;
export declare function build(options?: RunOptions): Promise<RunResult>;
export declare function matchDist(src: string, dist: string, others?: readonly string[]): void;
