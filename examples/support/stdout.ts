/**
 * Keeps the program running when the reader of its output exits (`| head`), so that it cleans up.
 */
export function letReaderLeave(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}
