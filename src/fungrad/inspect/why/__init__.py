"""Why a derivative is zero, infinite or missing."""
