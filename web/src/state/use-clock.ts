import { useEffect } from 'preact/hooks';

const TICK_MS = 1000;

/** Calls `onTick` every second while `isRunning`, so that elapsed times on the page advance. */
export function useClock(isRunning: boolean, onTick: () => void): void {
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(onTick, TICK_MS);
    return () => clearInterval(timer);
  }, [isRunning]);
}
